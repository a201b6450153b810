"""Several processes that train or evaluate one run together: how they find each other, agree, wait and fail together."""
