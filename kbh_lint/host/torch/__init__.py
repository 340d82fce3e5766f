"""What tensors do: operations of torch, views, copies, shapes, and the events that record them."""
