//! Invariants of a graph: checked after every pass, so that the pass that breaks one is named.

use super::{Graph, ROOT, RegionId, ValueId};

/// Checks in every region that values are defined once, before their use and in the same region. Constants need no
/// definition and are visible everywhere.
///
/// # Errors
/// The first violated invariant.
pub fn verify(graph: &Graph) -> Result<(), String> {
    let mut owner: Vec<Option<RegionId>> = vec![None; graph.values.len()];
    for region in graph.live_regions() {
        verify_region(graph, region, &mut owner)?;
    }
    let root = graph.region(ROOT);
    if root.parameters.len() != graph.inputs.len() || root.results.len() != graph.outputs.len() {
        return Err("the root region's parameters or results do not match the model's interface".to_owned());
    }
    Ok(())
}

fn verify_region(graph: &Graph, id: RegionId, owner: &mut [Option<RegionId>]) -> Result<(), String> {
    let region = graph.region(id);
    for parameter in &region.parameters {
        define(owner, id, *parameter, "a region parameter")?;
    }
    for node in &region.nodes {
        let node = graph.nodes.get(node.0 as usize).ok_or("a region lists a node that does not exist")?;
        for input in &node.inputs {
            check_use(graph, owner, id, *input, &node.origin.name)?;
        }
        for output in &node.outputs {
            define(owner, id, *output, &node.origin.name)?;
        }
    }
    region.results.iter().try_for_each(|result| check_use(graph, owner, id, *result, "a region result"))
}

fn define(owner: &mut [Option<RegionId>], region: RegionId, value: ValueId, what: &str) -> Result<(), String> {
    match owner.get_mut(value.0 as usize) {
        None => Err(format!("value {} of `{what}` does not exist", value.0)),
        Some(Some(_)) => Err(format!("value {} of `{what}` is defined twice", value.0)),
        Some(slot) => {
            *slot = Some(region);
            Ok(())
        }
    }
}

fn check_use(
    graph: &Graph,
    owner: &[Option<RegionId>],
    region: RegionId,
    value: ValueId,
    what: &str,
) -> Result<(), String> {
    if graph
        .values
        .get(value.0 as usize)
        .is_some_and(|info| info.fact.as_ref().is_some_and(|f| f.as_constant().is_some()))
    {
        return Ok(());
    }
    match owner.get(value.0 as usize) {
        Some(Some(defined)) if *defined == region => Ok(()),
        Some(Some(_)) => Err(format!("`{what}` uses value {} of another region", value.0)),
        _ => Err(format!("`{what}` uses value {} before it is defined", value.0)),
    }
}
