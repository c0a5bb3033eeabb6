"""The judge as Triton kernels: it reads input and output where they are and sends back a few numbers."""
