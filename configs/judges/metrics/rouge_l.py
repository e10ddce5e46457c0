"""Example of a metric for the judge `evaluate`: ROUGE-L F over the tokens of the judge `lexical`."""

import datasets
import evaluate

from lmms_eval_ad2.judge.backends.lexical import rouge_l, tokens


class RougeL(evaluate.Metric):
    def _info(self):
        texts = datasets.Features({"predictions": datasets.Value("string"), "references": datasets.Value("string")})
        return evaluate.MetricInfo(
            description="Mean ROUGE-L F-measure (Lin 2004, beta = 1), in 0..1.",
            citation="",
            inputs_description="predictions, references: one text each",
            features=texts,
        )

    def _compute(self, predictions, references):
        scores = [rouge_l(tokens(p), tokens(r)) for p, r in zip(predictions, references, strict=True)]
        return {"rouge_l": sum(scores) / len(scores)}
