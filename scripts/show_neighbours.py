"""For some words, print the nearest uses and the nearest words: `hf-elmo neighbours`."""

from hf_elmo.commands.show_neighbours import main

if __name__ == "__main__":
    main()
