"""Train, evaluate and apply a reader that answers questions on ELMo: `hf-elmo train-question-answering`."""

from hf_elmo.commands.train_question_answering import main

if __name__ == "__main__":
    main()
