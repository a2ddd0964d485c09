//! Flags for the options of a compilation, made from [`Options::TABLE`].

use crate::options::{OptionInfo, Options};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, Error};

/// The options as a group of flags: `#[command(flatten)]`.
#[derive(Clone, Debug, Default)]
pub struct OptionArguments {
    /// What the flags say.
    pub options: Options,
}

impl clap::Args for OptionArguments {
    fn augment_args(command: Command) -> Command {
        Options::TABLE.iter().fold(command, |command, row| command.arg(argument(row)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(row: &'static OptionInfo) -> Arg {
    let action = match (row.value, row.repeats) {
        ("", _) => ArgAction::SetTrue,
        (_, true) => ArgAction::Append,
        (_, false) => ArgAction::Set,
    };
    let argument =
        Arg::new(row.name).long(row.flag()).action(action).help(row.text()).help_heading("Options of the compilation");
    if row.value.is_empty() { argument } else { argument.value_name(row.value) }
}

impl clap::FromArgMatches for OptionArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut arguments = OptionArguments::default();
        arguments.update_from_arg_matches(matches)?;
        Ok(arguments)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for row in Options::TABLE {
            let values: Vec<String> = if row.value.is_empty() {
                matches.get_flag(row.name).then(|| "true".to_owned()).into_iter().collect()
            } else {
                matches.get_many::<String>(row.name).into_iter().flatten().cloned().collect()
            };
            for value in values {
                let set = self.options.set(row.name, &value);
                set.map_err(|problem| Error::raw(ErrorKind::InvalidValue, usage(row, &problem)))?;
            }
        }
        Ok(())
    }
}

fn usage(row: &OptionInfo, problem: &crate::diag::Diagnostic) -> String {
    let message = problem.message.replace(&format!("option `{}`", row.name), &format!("option `--{}`", row.flag()));
    match &problem.help {
        Some(help) => format!("{message}\n\n  {help}\n"),
        None => format!("{message}\n"),
    }
}
