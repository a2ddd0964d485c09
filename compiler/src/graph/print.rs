//! Text form of a graph: `--emit graph`, golden tests, bug reports.

use super::{Graph, RegionId, ValueId};
use crate::fact::Value;
use std::fmt;

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph {:?}", self.name)?;
        for info in &self.variables {
            writeln!(f, "  d{} = {} in {}..{}", info.variable.id, info.name, info.variable.min, info.variable.max)?;
        }
        for region in self.live_regions() {
            self.print_region(f, region)?;
        }
        Ok(())
    }
}

impl Graph {
    fn print_region(&self, f: &mut fmt::Formatter<'_>, id: RegionId) -> fmt::Result {
        let region = self.region(id);
        writeln!(f, "region {}({})", id.0, self.list(&region.parameters))?;
        for node in &region.nodes {
            let node = self.node(*node);
            let inputs: Vec<String> = node.inputs.iter().map(|v| format!("%{}", v.0)).collect();
            write!(f, "  {} = {:?}({})", self.list(&node.outputs), node.op, inputs.join(", "))?;
            for body in &node.regions {
                write!(f, " region {}", body.0)?;
            }
            writeln!(f, "  // {:?}", node.origin.name)?;
        }
        let results: Vec<String> = region.results.iter().map(|v| format!("%{}", v.0)).collect();
        writeln!(f, "  return {}", results.join(", "))
    }

    fn list(&self, values: &[ValueId]) -> String {
        let one = |value: &ValueId| match self.fact(*value) {
            None => format!("%{}", value.0),
            Some(fact) => match &fact.value {
                Value::Unknown => format!("%{}: {fact}", value.0),
                Value::Constant(tensor) if tensor.len() <= 8 => match tensor.to_i64s() {
                    Some(values) => format!("%{}: {fact} = {values:?}", value.0),
                    None => format!("%{}: {fact} constant", value.0),
                },
                Value::Constant(_) => format!("%{}: {fact} constant", value.0),
                Value::Fractions(_) => format!("%{}: {fact} from sizes", value.0),
                Value::Sizes(sizes) => {
                    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
                    format!("%{}: {fact} = [{}]", value.0, sizes.join(", "))
                }
            },
        };
        values.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}
