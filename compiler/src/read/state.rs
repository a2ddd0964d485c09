//! Checks that every variable has one reader and at most one writer.

use super::Net;
use crate::diag::{Diagnostic, Diagnostics, codes, quote};
use std::collections::BTreeSet;

/// Pairs `Assign` and `ReadValue` of one graph by `variable_id`.
pub(super) fn check(net: &Net, diagnostics: &mut Diagnostics) {
    let mut read = BTreeSet::new();
    let layers = net.order.iter().filter_map(|&index| net.layers.get(index));
    for variable in layers.filter(|layer| layer.is("ReadValue")).filter_map(|layer| layer.attribute("variable_id")) {
        if !read.insert(variable.value.as_str()) {
            let message = format!("variable {} is read twice", quote(&variable.value));
            diagnostics.push(Diagnostic::error(&codes::STATE, message).at(variable.value_span));
        }
    }
    let mut written = BTreeSet::new();
    for layer in net.sinks.iter().filter_map(|&index| net.layers.get(index)) {
        let name = layer.describe();
        let Some(variable) = layer.attribute("variable_id") else {
            let message = format!("{name} has no attribute `variable_id`");
            diagnostics.push(Diagnostic::error(&codes::MISSING_ATTRIBUTE, message).at(layer.span));
            continue;
        };
        let shown = quote(&variable.value);
        if !read.contains(variable.value.as_str()) {
            let message = format!("variable {shown} is assigned by {name}, but no output depends on a ReadValue of it");
            diagnostics.push(Diagnostic::error(&codes::STATE, message).at(variable.value_span));
        }
        if !written.insert(variable.value.as_str()) {
            let message = format!("variable {shown} is assigned twice");
            diagnostics.push(Diagnostic::error(&codes::STATE, message).at(variable.value_span));
        }
    }
}
