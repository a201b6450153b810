"""`trm-train`, and `python -m trm_train`."""

from trm_data.commands.start import start


def main() -> None:
    """Run `trm-train` on the words of the command line."""
    start("trm-train", "trm_train.cli")


if __name__ == "__main__":
    main()
