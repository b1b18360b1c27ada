"""scikit-learn's own estimator checks, and which of them are expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gaussip import NetworkGaussianMixture
from gaussip.preprocessing import NetworkPCA, NetworkStandardScaler

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Unlabelled(NetworkGaussianMixture):
    """The estimator with its labels taken away, so that every check runs to its end."""

    def fit(self, X, y=None, *, sites=None, sample_weight=None):
        return super().fit(X, None, sites=sites, sample_weight=sample_weight)


# scikit-learn's checks hand class labels as y even to unsupervised estimators; this one then is semi-supervised, and
# refuses more classes than components. `Unlabelled` passes all of these.
HANDED_LABELS = """
check_all_zero_sample_weights_error check_dict_unchanged check_dont_overwrite_parameters check_dtype_object
check_estimators_dtypes check_estimators_fit_returns_self check_estimators_nan_inf check_estimators_overwrite_params
check_estimators_pickle check_f_contiguous_array_estimator check_fit2d_1feature check_fit2d_predict1d
check_fit_check_is_fitted check_fit_idempotent check_fit_score_takes_y check_methods_sample_order_invariance
check_methods_subset_invariance check_n_features_in check_n_features_in_after_fitting check_pipeline_consistency
check_positive_only_tag_during_fit check_readonly_memmap_input check_sample_weight_equivalence_on_dense_data
check_sample_weights_list check_sample_weights_not_an_array check_sample_weights_not_overwritten
check_sample_weights_pandas_series check_sample_weights_shape
"""


def exceptions(estimator):
    """Checks expected to fail, with the reason."""
    if type(estimator) is not NetworkGaussianMixture:
        return {}
    return dict.fromkeys(HANDED_LABELS.split(), "the check's labels have more classes than there are components")


@quiet
@parametrize_with_checks(
    [
        NetworkGaussianMixture(),
        Unlabelled(),
        Unlabelled(2, random_state=0, degenerate="keep"),
        NetworkPCA(),
        NetworkStandardScaler(),
    ],
    expected_failed_checks=exceptions,
)
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)
