"""`trm-data`, and `python -m trm_data`."""

from trm_data.commands.start import start


def main() -> None:
    """Run `trm-data` on the words of the command line."""
    start("trm-data", "trm_data.cli")


if __name__ == "__main__":
    main()
