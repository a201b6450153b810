"""Several processes that work at one run together: how they find each other, agree, wait and fail together."""
