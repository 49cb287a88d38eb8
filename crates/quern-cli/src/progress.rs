//! Progress bars on standard error, where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quern::Progress;
use std::io::IsTerminal;

/// Shows the steps before an answer. Where standard error is no terminal, only notes are printed.
pub(crate) struct Bars {
    bar: Option<ProgressBar>,
    is_terminal: bool,
}

impl Bars {
    pub(crate) fn new() -> Bars {
        Bars { bar: None, is_terminal: std::io::stderr().is_terminal() }
    }

    /// Shows how far a count has come.
    pub(crate) fn set(&mut self, what: &str, done: u64, total: u64) {
        if self.bar.is_none() {
            self.open(what, Some(total), "{msg} {wide_bar} {pos}/{len}");
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
        if done >= total {
            self.finish();
        }
    }

    fn open(&mut self, what: &str, total: Option<u64>, template: &str) {
        if !self.is_terminal {
            return;
        }
        let bar = match total {
            Some(total) => ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()),
            None => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
        };
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        self.bar = Some(bar.with_message(what.to_owned()));
    }
}

impl Progress for Bars {
    fn start(&mut self, what: &str, total: Option<u64>) {
        let template = match total {
            Some(_) => "{msg} {wide_bar} {bytes}/{total_bytes} {eta}",
            None => "{msg} {spinner} {bytes}",
        };
        self.open(what, total, template);
    }

    fn advance(&mut self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn note(&mut self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| note(line)),
            None => note(line),
        }
    }
}

/// Something to know that is no error.
pub(crate) fn note(line: &str) {
    eprintln!("quern: note: {line}");
}

/// A line beside the answer, dimmed.
pub(crate) fn dim(line: &str) {
    if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        eprintln!("{line}");
    } else {
        eprintln!("\x1b[2m{line}\x1b[0m");
    }
}
