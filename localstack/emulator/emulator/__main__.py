"""Starts LocalStack in this process with the modules of this package installed.

They replace attributes of LocalStack's modules before anything imports those by name.
That works only with the version that requirements.lock pins.
"""

from emulator import database, functions, mapping

PINNED = "4.14.0"


def main():
    from localstack import constants

    if constants.VERSION != PINNED:
        raise SystemExit(f"this is LocalStack {constants.VERSION}; the emulator modules need {PINNED}")
    functions.install()
    mapping.install()
    database.install()

    from localstack.runtime import main as runtime

    runtime.main()


main()
