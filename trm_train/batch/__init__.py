"""Many runs by one command: what is to be done, who does it on which devices, and what came of it."""
