"""A feature of pairs of one's own: how much of a glossary is on both sides. See docs/concepts/classifier.md.

PLUGIN="--plugin examples/my_feature.py --source-lang spa --target-lang eng"
mexma classifier train dev.spa dev.eng $PLUGIN -o own.json
mexma mine spa.txt eng.txt --classifier own.json $PLUGIN -o pairs.tsv
mexma score spa.txt eng.txt $PLUGIN --json
"""

import numpy as np

from mexma_cli.classifier.features import pair_feature

GLOSSARY = {"agua": "water", "libro": "book", "casa": "house", "perro": "dog", "dinero": "money"}


@pair_feature("glossary", "terms of the glossary that one side alone has")
def glossary(sources: list[str], targets: list[str], languages: tuple[str, str]) -> np.ndarray:
    """For a block of pairs: the sentences of both sides, and their codes, such as spa_Latn."""
    if not languages[0].startswith("spa"):  # a glossary of other languages says nothing
        return np.zeros(len(sources))
    found = np.zeros(len(sources))
    for place, (source, target) in enumerate(zip(sources, targets, strict=True)):
        own, other = source.lower().split(), target.lower().split()
        found[place] = sum((term in own) != (meaning in other) for term, meaning in GLOSSARY.items())
    return found
