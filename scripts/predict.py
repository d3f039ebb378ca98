"""Apply a checkpoint of a task to text of one's own: `hf-elmo predict`."""

from hf_elmo.commands.predict import main

if __name__ == "__main__":
    main()
