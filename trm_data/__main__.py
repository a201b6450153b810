"""`trm-data`, and `python -m trm_data`."""


def main() -> None:
    """Run `trm-data` on the words of the command line."""
    from trm_data.cli import main

    main()


if __name__ == "__main__":
    main()
