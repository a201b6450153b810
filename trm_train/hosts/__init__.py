"""Several processes that train one run together: how they find each other, agree, wait and fail together."""
