"""Convert an ELMo checkpoint of another program, or back: `hf-elmo convert`."""

from hf_elmo.commands.convert import main

if __name__ == "__main__":
    main()
