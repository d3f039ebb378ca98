"""Train, evaluate and apply a classifier of texts on ELMo: `hf-elmo train-sentiment`."""

from hf_elmo.commands.train_sentiment import main

if __name__ == "__main__":
    main()
