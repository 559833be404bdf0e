"""The conformance suite: what every method must do, ours and yours alike.

In a test of your own::

    from delome.testing import check_method

    def test_my_method():
        check_method(MyMethod)

On the command line: ``delome check my_module:MyMethod``.
"""

from delome.testing.leaks import Leaks, leaks_of
from delome.testing.subject import Subject
from delome.testing.suite import Outcome, check_method, run_checks

__all__ = ["Leaks", "Outcome", "Subject", "check_method", "leaks_of", "run_checks"]
