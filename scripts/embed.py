"""Embed a text file with an ELMo checkpoint: `hf-elmo embed`."""

from hf_elmo.commands.embed import main

if __name__ == "__main__":
    main()
