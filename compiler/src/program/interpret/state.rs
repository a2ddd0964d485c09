//! Run-time sizes that are part of the state.

use super::Interpreter;

impl Interpreter<'_> {
    /// Binds the sizes that the last run left behind, or those of the first run.
    pub(super) fn bind_state(&mut self) -> Result<(), String> {
        let state = &self.program.state;
        let (Some(initialised), Some(kept)) = (state.initialised, state.kept_sizes) else { return Ok(()) };
        let kept = match self.flag(initialised)? {
            true => self.tensor(kept)?.to_i64s(),
            false => None,
        };
        for (i, size) in state.sizes.iter().enumerate() {
            let value = match &kept {
                Some(values) => values.get(i).copied().unwrap_or(0),
                None => self.size(&size.initial),
            };
            self.set_size(size.variable.id, value);
        }
        for size in &state.sizes {
            let value = self.size(&crate::dim::Dim::variable(size.variable));
            for (when, value) in [("before", value), ("after", self.size(&size.next))] {
                if value > size.variable.max {
                    let (max, name) = (size.variable.max, &self.program.variables[size.variable.id as usize].name);
                    return Err(format!("`{name}` is {value} {when} this run, compiled for at most {max}"));
                }
            }
        }
        Ok(())
    }
}
