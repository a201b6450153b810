"""Files of named weights: PyTorch state dicts, safetensors and npz, read as plain data."""
