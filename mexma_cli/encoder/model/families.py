"""The families of transformers that an encoder may be of: BERT's, T5's, and decoders."""

from __future__ import annotations

from typing import NamedTuple

from mexma_cli.settings.stages import Pooling


class Family(NamedTuple):
    """The differences of one family from the others."""

    model: str
    """Its class in transformers."""
    behind_padding: bool
    """Whether positions begin behind the padding id, as in RoBERTa, and not at 0."""
    is_bert: bool = True
    """Whether it computes what BERT does, by weights of the same names; if not, transformers' model runs."""
    packs: bool = True
    """Whether it takes packed sentences: attention through AttentionInterface, positions as arguments. If
    not, sentences of equal length run together, without padding too."""
    only_embeds: bool = False
    """Whether it packs to embed alone: it is not trained, and there is no look at its attention."""
    takes_language: bool = False
    """Whether a sentence begins with the token of its language, and its mean is the vector, as in SONAR."""

    @property
    def runs(self) -> str:
        """How it is computed on a processor, in words."""
        if self.is_bert:
            return "mexma's engine, sentences packed"
        return "transformers' model, sentences " + ("packed" if self.packs else "of equal length together")


_BY_LENGTH = {
    "deberta-v2": "DebertaV2Model",
    "gemma2": "Gemma2Model",
    "mt5": "MT5EncoderModel",
    "rembert": "RemBertModel",
    "roformer": "RoFormerModel",
    "t5": "T5EncoderModel",
    "umt5": "UMT5EncoderModel",
}
"""Model type and class: these run as they are, sentences of equal length together. `packed_attention` has no
biases of distances, as T5's families have, and no cap on scores, as gemma2."""

_PACKED = {
    "albert": "AlbertModel",
    "electra": "ElectraModel",
    "ernie": "ErnieModel",
    "eurobert": "EuroBertModel",
    "gemma": "GemmaModel",
    "gemma3_text": "Gemma3TextModel",
    "gte": "GteModel",
    "jina_embeddings_v3": "JinaEmbeddingsV3Model",
    "llama": "LlamaModel",
    "mistral": "MistralModel",
    "nomic_bert": "NomicBertModel",
    "qwen2": "Qwen2Model",
    "qwen3": "Qwen3Model",
    "xlm-roberta-xl": "XLMRobertaXLModel",
}
"""Model type and class: these, decoders above all, attend through AttentionInterface."""

STATIC, TABLE = "static", "embedding.weight"
"""The model type of static encoders, model2vec's and StaticEmbedding's, and the name of their one weight."""

FAMILIES = {
    "xlm-roberta": Family("XLMRobertaModel", behind_padding=True),
    "roberta": Family("RobertaModel", behind_padding=True),
    "camembert": Family("CamembertModel", behind_padding=True),
    "bert": Family("BertModel", behind_padding=False),
    "distilbert": Family("DistilBertModel", behind_padding=False, is_bert=False),
    "modernbert": Family("ModernBertModel", behind_padding=False, is_bert=False),
    "mpnet": Family("MPNetModel", behind_padding=True, is_bert=False, packs=False),
    "m2m_100": Family("M2M100Encoder", True, is_bert=False, packs=False, takes_language=True),
    "laser2": Family("Lstm", behind_padding=False, is_bert=False, packs=False),
    "laser3": Family("Laser3", behind_padding=False, is_bert=False, packs=False),
    STATIC: Family("StaticEmbedding", behind_padding=False, is_bert=False, packs=False),
    **{
        kind: Family(model, kind in ("jina_embeddings_v3", "xlm-roberta-xl"), is_bert=False, only_embeds=True)
        for kind, model in _PACKED.items()
    },
    **{kind: Family(model, False, is_bert=False, packs=False) for kind, model in _BY_LENGTH.items()},
}
"""By the model type in config.json. An encoder of another family is refused."""

ACTIVATIONS = ("gelu", "gelu_new", "relu")
"""Activations of BERT's family that are computed here, by their names in config.json (`hidden_act`)."""

FIRST_ONLY = ("cls", "pooler")
"""Poolings that read the first token alone."""

POOLING_KEYS: dict[Pooling, str] = {
    "cls": "cls_token",
    "mean": "mean_tokens",
    "max": "max_tokens",
    "weightedmean": "weightedmean_tokens",
    "lasttoken": "lasttoken",
}
"""Poolings of sentence-transformers, and what its config.json calls them behind `pooling_mode_`."""
