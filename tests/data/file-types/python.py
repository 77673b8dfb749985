"""Counts the words of the files named on the command line."""

import collections
import sys


def count(path):
    with open(path, encoding="utf-8") as file:
        return collections.Counter(word.lower() for line in file for word in line.split())


if __name__ == "__main__":
    total = sum((count(path) for path in sys.argv[1:]), collections.Counter())
    for word, number in total.most_common(10):
        print(f"{number:6} {word}")
