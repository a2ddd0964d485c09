//! The table of diagnostic codes, sorted by id; ids are stable and never reused.

use super::Code;

/// Internal error, please report.
pub static INTERNAL: Code = Code {
    id: "IR0001",
    name: "internal",
    title: "internal error, please report",
    explanation: "The compiler found its own state to be inconsistent. This is a bug of the compiler and never the \
        fault of the model. Please report it together with the `.xml` file and the options; `--stop-after` \
        and `--emit` help to narrow it down.",
};

/// A file cannot be read or written.
pub static IO: Code = Code {
    id: "IR0002",
    name: "io",
    title: "a file cannot be read or written",
    explanation: "The operating system refused to read or write a file. The message holds the path that was tried and \
        the reason. Relative paths in the macro are relative to the manifest folder of the crate.",
};

/// An option is wrong for this model.
pub static OPTION: Code = Code {
    id: "IR0003",
    name: "option",
    title: "an option is wrong for this model",
    explanation: "An option names something that the model does not have, contradicts another option or has a value \
        that cannot be used. The message says which option and what would be accepted.",
};

/// A size exceeds what the compiler can handle.
pub static LIMIT: Code = Code {
    id: "IR0004",
    name: "limit",
    title: "a size exceeds what the compiler can handle",
    explanation: "A number in the model, or a size that follows from it, is too large: it overflows the address space, \
        or sub-graphs are nested too deeply. Real models do not come near these limits, so the file is most \
        likely damaged.",
};

/// The file is not well-formed XML.
pub static XML: Code = Code {
    id: "IR0101",
    name: "xml",
    title: "the file is not well-formed XML",
    explanation: "The model is an XML file and this one breaks the rules of XML: a tag is not closed, an attribute has \
        no quotes, an entity is not known, a character is not valid. Entities defined in the document itself \
        are not supported. Truncated downloads are the usual cause.",
};

/// The text encoding is damaged.
pub static ENCODING: Code = Code {
    id: "IR0102",
    name: "encoding",
    title: "the text encoding is damaged",
    explanation: "The file is read as UTF-8, or as UTF-16 or UTF-32 if its first bytes say so, and contains bytes that \
        are not valid in that encoding.",
};

/// The file is not an OpenVINO model.
pub static STRUCTURE: Code = Code {
    id: "IR0103",
    name: "structure",
    title: "the file is not an OpenVINO model",
    explanation: "The XML is well-formed but is not laid out like an OpenVINO IR: the root element must be `<net>` \
        with `<layers>` and `<edges>` inside. A different XML file was given, or the file is damaged.",
};

/// The IR version is not supported.
pub static VERSION: Code = Code {
    id: "IR0104",
    name: "version",
    title: "the IR version is not supported",
    explanation: "The attribute `version` of `<net>` must be 10 or 11. Older files were written by OpenVINO 2019 or \
        earlier: convert the original model again with a current OpenVINO.",
};

/// A required attribute is missing.
pub static MISSING_ATTRIBUTE: Code = Code {
    id: "IR0105",
    name: "missing-attribute",
    title: "a required attribute is missing",
    explanation: "The element needs an attribute that it does not have. For attributes of `<data>` the operation's \
        specification lists which ones are required; OpenVINO itself may read such a file and silently use \
        zero.",
};

/// The value of an attribute cannot be used.
pub static BAD_ATTRIBUTE: Code = Code {
    id: "IR0106",
    name: "bad-attribute",
    title: "the value of an attribute cannot be used",
    explanation: "The value of an attribute is not of the expected kind: not a number, not one of the known words, \
        outside its range, or inconsistent with another attribute.",
};

/// An attribute is not read by the operation.
pub static UNKNOWN_ATTRIBUTE: Code = Code {
    id: "IR0107",
    name: "unknown-attribute",
    title: "an attribute is not read by the operation",
    explanation: "The operation of this opset does not know the attribute, so it has no effect. OpenVINO ignores it as \
        well. Often the name is misspelt, and the operation then works with a default.",
};

/// Two layers have the same id.
pub static DUPLICATE_ID: Code = Code {
    id: "IR0108",
    name: "duplicate-id",
    title: "two layers have the same id",
    explanation: "Edges refer to layers by `id`, so ids must be unique inside one `<layers>`. OpenVINO keeps the last \
        of the layers and drops the others without a message; here it is an error.",
};

/// A port is wrong.
pub static PORT: Code = Code {
    id: "IR0109",
    name: "port",
    title: "a port is wrong",
    explanation: "A `<port>` lacks its id, has a precision or dimension that cannot be read, shares its id with \
        another port of the same layer, or is referred to but does not exist.",
};

/// An edge is wrong.
pub static EDGE: Code = Code {
    id: "IR0110",
    name: "edge",
    title: "an edge is wrong",
    explanation: "An edge refers to a layer or port that does not exist, or two edges end in the same input, or an \
        input without an edge stands before one that has an edge.",
};

/// The graph has a cycle.
pub static CYCLE: Code = Code {
    id: "IR0111",
    name: "cycle",
    title: "the graph has a cycle",
    explanation: "Layers depend on each other in a circle, so there is no order in which they could be computed. \
        Recurrence is expressed with `Loop`, `TensorIterator` or `ReadValue` and `Assign`.",
};

/// A sub-graph or its port map is wrong.
pub static BODY: Code = Code {
    id: "IR0112",
    name: "body",
    title: "a sub-graph or its port map is wrong",
    explanation: "`If`, `Loop` and `TensorIterator` hold bodies and maps from outer ports to layers of the body. A \
        body is missing, or a map refers to a port or layer that does not exist or has the wrong kind.",
};

/// A variable is written but never read.
pub static STATE: Code = Code {
    id: "IR0113",
    name: "state",
    title: "what reads and writes a variable does not fit together",
    explanation: "`Assign` and `ReadValue` are paired by the attribute `variable_id`. A variable has one `ReadValue` and \
        at most one `Assign`, and the value that is assigned has the type and shape that the `ReadValue` declares.",
};

/// The pre-processing section is wrong.
pub static PRE_PROCESS: Code = Code {
    id: "IR0114",
    name: "pre-process",
    title: "the pre-processing section is wrong",
    explanation: "`<pre-process>` subtracts mean values from an input. It must name a Parameter of a static shape and \
        hold one mean per channel, either as numbers or as a range of the weights file.",
};

/// The model needs a weights file that was not found.
pub static WEIGHTS_MISSING: Code = Code {
    id: "IR0201",
    name: "weights-missing",
    title: "the model needs a weights file that was not found",
    explanation: "Constants of the model lie in a `.bin` file, by default beside the `.xml` with the same stem. It was \
        not found or is empty. Pass its path with the option `weights`.",
};

/// A constant lies outside the weights file.
pub static CONSTANT_RANGE: Code = Code {
    id: "IR0202",
    name: "constant-range",
    title: "a constant lies outside the weights file",
    explanation: "`offset` and `size` of a constant reach beyond the end of the `.bin` file. The weights belong to \
        another model or the file is truncated.",
};

/// A constant has too few bytes for its shape.
pub static CONSTANT_SIZE: Code = Code {
    id: "IR0203",
    name: "constant-size",
    title: "a constant has too few bytes for its shape",
    explanation: "The attribute `size` of a constant is smaller than its shape and element type need. The file was \
        damaged or edited by hand.",
};

/// A string constant is damaged.
pub static STRING_FORMAT: Code = Code {
    id: "IR0204",
    name: "string-format",
    title: "a string constant is damaged",
    explanation: "Text constants are stored as a count, as many offsets plus one, and the UTF-8 bytes. The numbers of \
        this one contradict its shape or its size.",
};

/// The opset is not known.
pub static UNKNOWN_OPSET: Code = Code {
    id: "IR0301",
    name: "unknown-opset",
    title: "the opset is not known",
    explanation: "The attribute `version` of a layer names an opset. Known are `opset1` to `opset17`, and `extension` \
        and `experimental` for a few operations. Custom operations cannot be compiled.",
};

/// The operation is not known.
pub static UNKNOWN_OPERATION: Code = Code {
    id: "IR0302",
    name: "unknown-operation",
    title: "the operation is not known",
    explanation: "No opset of OpenVINO has an operation of this type. Custom and plugin-internal operations cannot be \
        compiled; export the model before the plugin transforms it.",
};

/// The operation does not exist in this opset.
pub static NOT_IN_OPSET: Code = Code {
    id: "IR0303",
    name: "not-in-opset",
    title: "the operation does not exist in this opset",
    explanation: "The operation exists, but in a later or an earlier opset than the one that the layer names. OpenVINO \
        refuses such a file as well.",
};

/// The operation or feature is not supported yet.
pub static UNSUPPORTED: Code = Code {
    id: "IR0304",
    name: "unsupported",
    title: "the operation or feature is not supported yet",
    explanation: "The model is valid, but uses an operation, an attribute value or an element type that the compiler \
        cannot translate yet. All such layers are listed at once.",
};

/// An operation has the wrong number of inputs.
pub static ARITY: Code = Code {
    id: "IR0305",
    name: "arity",
    title: "an operation has the wrong number of inputs",
    explanation: "The number of edges into the layer does not fit its operation. Inputs are counted by edges, not by \
        `<port>` elements.",
};

/// The element types do not fit.
pub static TYPE: Code = Code {
    id: "IR0401",
    name: "type",
    title: "the element types do not fit",
    explanation: "The operation does not accept the element types of its inputs, or its inputs must have the same type \
        and do not. Types are inferred from the Parameters and Constants; those declared on ports are not \
        used.",
};

/// The shapes do not fit.
pub static SHAPE: Code = Code {
    id: "IR0402",
    name: "shape",
    title: "the shapes do not fit",
    explanation: "The shapes of the inputs or the attributes contradict each other for this operation. Shapes are \
        inferred from the Parameters and Constants; those declared on ports are not used.",
};

/// An input must be a constant or has a bad value.
pub static VALUE: Code = Code {
    id: "IR0403",
    name: "value",
    title: "an input must be a constant or has a bad value",
    explanation: "The operation needs to know this input when the model is compiled (axes, a target shape, ...), and \
        it is not constant, or its value is out of range.",
};

/// A dimension has no upper bound.
pub static UNBOUNDED: Code = Code {
    id: "IR0404",
    name: "unbounded",
    title: "a dimension has no upper bound",
    explanation: "Buffers are sized when the model is compiled, so every dimension needs an upper bound. Give the \
        shape of an input with `shape`, for example `--shape input=1..8,3,224,224`. Where data decide the size of a \
        layer's result, give its largest number of elements, `--bound LAYER=1000`, or the largest size of one dimension, \
        `--bound LAYER_0=8`; a bound without a name, `--bound 1000`, is for all that have none.",
};

/// Every code, sorted by id.
pub static ALL: &[&Code] = &[
    &INTERNAL,
    &IO,
    &OPTION,
    &LIMIT,
    &XML,
    &ENCODING,
    &STRUCTURE,
    &VERSION,
    &MISSING_ATTRIBUTE,
    &BAD_ATTRIBUTE,
    &UNKNOWN_ATTRIBUTE,
    &DUPLICATE_ID,
    &PORT,
    &EDGE,
    &CYCLE,
    &BODY,
    &STATE,
    &PRE_PROCESS,
    &WEIGHTS_MISSING,
    &CONSTANT_RANGE,
    &CONSTANT_SIZE,
    &STRING_FORMAT,
    &UNKNOWN_OPSET,
    &UNKNOWN_OPERATION,
    &NOT_IN_OPSET,
    &UNSUPPORTED,
    &ARITY,
    &TYPE,
    &SHAPE,
    &VALUE,
    &UNBOUNDED,
];

/// Looks a code up by id or name, in any case.
pub fn find(text: &str) -> Option<&'static Code> {
    ALL.iter().copied().find(|code| code.id.eq_ignore_ascii_case(text) || code.name.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_worded_alike() {
        assert!(ALL.windows(2).all(|pair| pair[0].id < pair[1].id));
        for code in ALL {
            assert!(code.id.len() == 6 && code.id.starts_with("IR"), "{}", code.id);
            assert!(!code.title.ends_with('.') && code.title.len() < 60, "{}", code.id);
            assert!(code.explanation.ends_with('.') && !code.explanation.contains("  "), "{}", code.id);
            assert_eq!(find(code.name).map(|c| c.id), Some(code.id));
        }
        assert_eq!(find("ir0101").map(|c| c.name), Some("xml"));
        assert!(find("IR9999").is_none());
    }
}
