//! The reader on a corpus of good and bad files, and on mutations of the good ones.

use include_ir_compiler::diag::{Diagnostics, render};
use include_ir_compiler::read::{self, Net};
use include_ir_compiler::source::Source;
use mutate::Random;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "reader/mutate.rs"]
mod mutate;
#[path = "reader/verify.rs"]
mod verify;

/// A corpus file. Its first line is a comment: `expect CODE:LINE ...` lists the diagnostics, `weights N` gives it N
/// zero bytes of weights; otherwise they come from the `.bin` beside it, if there is one.
struct Case {
    name: String,
    text: String,
    expected: BTreeSet<(String, usize)>,
    weights: Vec<u8>,
}

fn corpus(kind: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/reader").join(kind);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "xml"));
    paths.sort();
    assert!(paths.len() > 40);
    paths.iter().map(|path| case(path)).collect()
}

fn case(path: &Path) -> Case {
    let text = fs::read_to_string(path).unwrap();
    let mut words = text.lines().next().unwrap().split(' ').skip(1);
    let mut case = Case {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        text: text.clone(),
        expected: BTreeSet::new(),
        weights: fs::read(path.with_extension("bin")).unwrap_or_default(),
    };
    while let Some(word) = words.next() {
        match word.split_once(':') {
            Some((code, line)) => {
                case.expected.insert((code.to_string(), line.parse().unwrap()));
            }
            None if word == "weights" => case.weights = vec![0; words.next().unwrap().parse().unwrap()],
            None => {}
        }
    }
    case
}

fn read(text: impl Into<Vec<u8>>, weights: &[u8]) -> (Option<Net>, Diagnostics) {
    let source = match Source::from_memory("model.xml", text, weights) {
        Ok(source) => source,
        Err(diagnostics) => return (None, diagnostics),
    };
    let mut diagnostics = Diagnostics::new();
    let net = read::read(&source, &mut diagnostics);
    diagnostics.set_source(source.text());
    (net, diagnostics)
}

fn found(diagnostics: &Diagnostics) -> BTreeSet<(String, usize)> {
    let source = diagnostics.source().unwrap();
    let place = |span| render::position(source, span).line;
    diagnostics.iter().map(|d| (d.code.id.to_string(), d.span.map_or(0, |span| place(span.start)))).collect()
}

#[test]
fn good_files_are_read() {
    for case in corpus("good") {
        let (net, diagnostics) = read(case.text.as_str(), &case.weights);
        assert!(net.is_some(), "{}:\n{diagnostics}", case.name);
        assert_eq!(found(&diagnostics), case.expected, "{}:\n{diagnostics}", case.name);
    }
}

#[test]
fn bad_files_get_all_their_errors_in_place() {
    let mut failures = String::new();
    for case in corpus("bad") {
        let (net, diagnostics) = read(case.text.as_str(), &case.weights);
        assert!(net.is_none(), "{} was accepted", case.name);
        assert!(!case.expected.is_empty(), "{}", case.name);
        let found = found(&diagnostics);
        if found != case.expected {
            failures += &format!("{}: {found:?} instead of {:?}\n{diagnostics}\n", case.name, case.expected);
        }
        for diagnostic in &diagnostics {
            let message = &diagnostic.message;
            assert!(!message.ends_with('.') && !message.starts_with(char::is_uppercase), "{message}");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn accepted_files_give_consistent_nets() {
    for case in corpus("good") {
        let source = Source::from_memory("model.xml", case.text.as_str(), case.weights.as_slice()).unwrap();
        let net = read::read(&source, &mut Diagnostics::new()).unwrap();
        verify::net(&net, &source);
    }
}

#[test]
fn mutations_never_panic_and_errors_are_located() {
    let cases = corpus("good");
    let (mut accepted, mut rejected) = (0, 0);
    for seed in 0..4000 {
        let mut random = Random::new(seed);
        let case = &cases[random.below(cases.len())];
        let mut text = case.text.clone().into_bytes();
        for _ in 0..=random.below(3) {
            match seed % 2 {
                0 => mutate::apply(&mut text, &mut random),
                _ => mutate::change_value(&mut text, &mut random),
            }
        }
        let mut weights = case.weights.clone();
        if random.below(4) == 0 {
            weights.truncate(random.below(weights.len() + 1));
        }
        let shown = String::from_utf8_lossy(&text).into_owned();
        let source = match Source::from_memory("model.xml", text, weights) {
            Ok(source) => source,
            Err(diagnostics) => {
                assert!(diagnostics.to_string().contains("model.xml:"), "seed {seed}\n{shown}");
                rejected += 1;
                continue;
            }
        };
        let mut diagnostics = Diagnostics::new();
        let net = read::read(&source, &mut diagnostics);
        diagnostics.set_source(source.text());
        assert_eq!(net.is_none(), diagnostics.has_errors(), "seed {seed}\n{shown}");
        for diagnostic in &diagnostics {
            let span = diagnostic.span.unwrap_or_else(|| panic!("seed {seed}: no place: {diagnostic}\n{shown}"));
            assert!(span.start <= span.end && span.end <= source.xml.len() + 1, "seed {seed}: {diagnostic}");
            assert!(diagnostic.message.len() < 2000 && !diagnostic.message.contains(char::is_control), "seed {seed}");
        }
        assert!(diagnostics.is_empty() || diagnostics.to_string().contains("model.xml:"));
        match net {
            Some(net) => {
                verify::net(&net, &source);
                accepted += 1;
            }
            None => rejected += 1,
        }
    }
    // Both kinds must occur, or the mutations test nothing.
    assert!(accepted > 400 && rejected > 400, "{accepted} accepted, {rejected} rejected");
}

#[test]
fn files_that_no_comment_fits_into() {
    for (text, code) in [
        (&b""[..], "IR0103"),
        (b"   \n", "IR0103"),
        (b"just text", "IR0103"),
        (b"<!-- only a comment -->", "IR0103"),
        (b"<net version='11'", "IR0101"),
        (b"<net version='11'>\0</net>", "IR0101"),
        (b"<net version='11' name='\xff'/>", "IR0102"),
        (b"\xff\xfe<\0n\0e", "IR0102"),
        (b"PK\x03\x04", "IR0103"),
    ] {
        let (net, diagnostics) = read(text, &[]);
        let codes: Vec<_> = diagnostics.iter().map(|d| d.code.id).collect();
        assert!(net.is_none());
        assert_eq!(codes, [code], "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn every_encoding_gives_the_same_net() {
    let text = "<net name='ü𝄞' version='11'><layers/></net>";
    let marked: Vec<char> = format!("\u{feff}{text}").chars().collect();
    let wide = |big: bool| -> Vec<u8> {
        let units = marked.iter().map(|&c| u32::from(c));
        units.flat_map(|u| if big { u.to_be_bytes() } else { u.to_le_bytes() }).collect()
    };
    let half = |big: bool| -> Vec<u8> {
        let units = marked.iter().collect::<String>().encode_utf16().collect::<Vec<_>>();
        units.into_iter().flat_map(|u| if big { u.to_be_bytes() } else { u.to_le_bytes() }).collect()
    };
    for bytes in
        [text.into(), marked.iter().collect::<String>().into(), wide(false), wide(true), half(false), half(true)]
    {
        let bytes: Vec<u8> = bytes;
        assert_eq!(read(bytes, &[]).0.unwrap().name, "ü𝄞");
    }
}
