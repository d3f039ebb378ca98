"""Train, evaluate and apply a token classifier on ELMo: `hf-elmo train-tagger`."""

from hf_elmo.commands.train_tagger import main

if __name__ == "__main__":
    main()
