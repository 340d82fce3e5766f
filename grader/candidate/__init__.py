"""All that runs beside a submission, in its process. Imports only `grader.wire`."""
