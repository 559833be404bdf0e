"""The temperature at which a softmax of a regression's scores is a probability: from a model, without any node."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

OUTLIERS = 0.01
"""Share of the nodes of a class that lie among those of another one, as Gaussians never do."""
DRAWS, DRAWS_IN_ALL = 256, 20_000
"""Scores that are drawn for each class, and for all classes if there are many."""
LARGEST_LEVERAGE = 0.9


def fitted_temperature(means: np.ndarray, covariance: np.ndarray, leverage: float, rng: np.random.Generator) -> float:
    """T that minimises the log-loss of ``softmax(s / T)`` under a model of scores s, fitted to one-hot targets y.

    Scores of training rows of class c are N(means[c], covariance). Those of other rows are further from their target,
    as scores of training rows are that were left out of the regression: ``y - (y - s) / (1 - h)`` with the mean
    ``leverage`` h of a row, as in generalised cross-validation (Golub, Heath, Wahba, 1979). A share of `OUTLIERS` of
    each class has scores of other classes: without them, classes that hardly overlap would be told apart for certain.
    Classes are equally frequent.

    >>> T = fitted_temperature(np.eye(2), 0.25 * np.eye(2), 0.0, np.random.default_rng(0))
    >>> 0.2 < T < 0.4  # without outliers it is the variance
    True
    """
    classes = len(means)
    draws = max(1, min(DRAWS, DRAWS_IN_ALL // classes))
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    spread = vectors * np.sqrt(values.clip(min=0))  # rounding may leave a variance below zero
    trained = means[:, None] + rng.standard_normal((classes, draws, classes)) @ spread.T
    targets = np.eye(classes)[:, None]
    scores = targets - (targets - trained) / (1 - min(leverage, LARGEST_LEVERAGE))
    unit = float(scores.std())
    if classes == 1 or unit == 0:
        return 1.0
    own = np.arange(classes)

    def log_loss(exponent: float) -> float:
        logarithms = log_softmax(scores / (unit * math.exp(exponent)), axis=2)
        right = logarithms[own, :, own].mean()
        wrong = (logarithms.mean() * classes - right) / (classes - 1)
        return -float((1 - OUTLIERS) * right + OUTLIERS * wrong)

    found = minimize_scalar(log_loss, bounds=(-10, 10), method="bounded")
    return unit * math.exp(found.x)
