"""Score the words of a text by the language models inside ELMo: `hf-elmo score`."""

from hf_elmo.commands.score import main

if __name__ == "__main__":
    main()
