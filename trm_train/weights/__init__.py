"""Files of weights by name: PyTorch state dicts, safetensors and npz, read as plain data, whoever wrote them."""
