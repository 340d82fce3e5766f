import torch
from transformers import AutoConfig, AutoModelForCausalLM


class Model(torch.nn.Module):
    def __init__(self, model_name, config):
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(model_name, config=config)

    def forward(self, x):
        return self.model(x).logits


model_name = "some/model"
config = AutoConfig.from_pretrained(model_name)
vocab_size = config.vocab_size


def get_inputs():
    return [torch.randint(0, vocab_size, (1, 2047))]


def get_init_inputs():
    return [model_name, config]
