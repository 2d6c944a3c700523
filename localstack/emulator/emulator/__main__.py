"""Starts LocalStack in this process, with the parts of this package in place.

The parts replace attributes of LocalStack's modules before anything has imported
them by name. That fits the one version that requirements.lock pins.
"""

from emulator import database, functions, mapping

PINNED = "4.14.0"


def main():
    from localstack import constants

    if constants.VERSION != PINNED:
        raise SystemExit(f"this is LocalStack {constants.VERSION}, and the parts fit {PINNED}")
    functions.install()
    mapping.install()
    database.install()

    from localstack.runtime import main as runtime

    runtime.main()


main()
