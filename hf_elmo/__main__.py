"""`python -m hf_elmo COMMAND`, which is `hf-elmo COMMAND`."""

from .cli.command_line import main

if __name__ == "__main__":
    main()
