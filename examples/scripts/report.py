"""Counts words of a text and hands the result back as outputs."""
import collections
import os

text = "the quick brown fox jumps over the lazy dog while the cat sleeps"
counts = collections.Counter(text.split())
word, times = counts.most_common(1)[0]
for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
    print(f"{count:3} {name}")
with open(os.environ["KRUNTIME_OUTPUTS"], "a", encoding="utf-8") as outputs:
    outputs.write(f"word={word}\ntimes={times}\n")
