"""Recording a real kernel under Triton's interpreter: each step of a row, beside the exact value of the step."""
