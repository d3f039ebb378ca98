"""Build the vocabulary of a pre-training softmax: `hf-elmo vocabulary`."""

from hf_elmo.commands.build_vocabulary import main

if __name__ == "__main__":
    main()
