"""Upload a finished checkpoint to the Hub: `hf-elmo push`."""

from hf_elmo.commands.push import main

if __name__ == "__main__":
    main()
