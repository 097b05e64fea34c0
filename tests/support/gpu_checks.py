"""The checks of GPU kernels that take only a `gpu_cases.Place`."""

from tests.support import (
    gpu_cases,
    gpu_error_cases,
    gpu_forest_cases,
    gpu_inference_cases,
    gpu_step_cases,
)

CHECKS = [
    gpu_cases.check_trees_are_told_apart,
    gpu_cases.check_two_threads,
    gpu_cases.check_pinned_or_not,
    gpu_cases.check_labels_that_are_rows,
    gpu_step_cases.check_a_step_keeps_what_was_read,
    gpu_step_cases.check_steps_from_one_state,
    gpu_step_cases.check_weight_decay,
    gpu_error_cases.check_no_width,
    gpu_error_cases.check_rules_of_cpus,
    gpu_inference_cases.check_no_width,
    gpu_inference_cases.check_nan,
    gpu_inference_cases.check_refusals,
    gpu_inference_cases.check_forged_paths,
    gpu_forest_cases.check_no_starts,
    gpu_forest_cases.check_one_root,
]
