"""`trm-train`, and `python -m trm_train`."""


def main() -> None:
    """Run `trm-train` on the words of the command line."""
    from trm_train.cli import main

    main()


if __name__ == "__main__":
    main()
