//! Comments in generated code: what each step computes, by number.

use super::{names, print};
use crate::diag::SourceText;
use crate::graph::Origin;
use crate::program::{BufferId, Program, Step};
use proc_macro2::TokenStream;

/// Collects comments.
#[derive(Debug, Default)]
pub struct Comments {
    texts: Vec<String>,
    /// Offsets behind the line breaks of the source.
    lines: Vec<usize>,
}

impl Comments {
    /// An empty collection; line numbers refer to `source`.
    pub fn new(source: Option<&SourceText>) -> Self {
        let breaks =
            source.map(|s| s.text().bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1).collect());
        Comments { texts: Vec::new(), lines: breaks.unwrap_or_default() }
    }

    /// A statement that becomes a comment line.
    pub fn statement(&mut self, text: String) -> TokenStream {
        self.texts.push(text);
        print::comment(self.texts.len() - 1)
    }

    /// The comments in the order of their numbers.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// What a step computes: layers, shapes, line in the XML.
    pub fn describe(&self, program: &Program, step: &Step) -> String {
        let (reads, writes) = step.accesses();
        let moving: Vec<BufferId> = reads.into_iter().filter(|b| program.buffer(*b).constant().is_none()).collect();
        let layers: Vec<String> = step.origins.iter().take(6).map(layer).collect();
        let more = if step.origins.len() > 6 { ", ..." } else { "" };
        let line = step.origins.first().and_then(|origin| origin.span).filter(|_| !self.lines.is_empty());
        let line = line.map(|span| format!(", line {}", self.lines.partition_point(|start| *start <= span.start) + 1));
        format!(
            "{}{more}: {} -> {}{}",
            layers.join(", "),
            shapes(program, &moving),
            shapes(program, &writes),
            line.unwrap_or_default()
        )
    }
}

fn layer(origin: &Origin) -> String {
    format!("{} `{}`", names::comment(&origin.kind), names::comment(&origin.name))
}

fn shapes(program: &Program, buffers: &[BufferId]) -> String {
    let shape = |id: &BufferId| {
        let buffer = program.buffer(*id);
        let dims: Vec<String> = buffer.dims.iter().map(ToString::to_string).collect();
        format!("{}[{}]", buffer.element, dims.join(", "))
    };
    let shown: Vec<String> = buffers.iter().take(4).map(shape).collect();
    format!("{}{}", shown.join(" "), if buffers.len() > 4 { " ..." } else { "" })
}
