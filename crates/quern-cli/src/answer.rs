//! Answers as the commands that ask for them share it: loading for it, following one to its end, and its instructions.

use crate::args::{ModelArg, RunningArgs, SamplingArgs};
use crate::modes;
use crate::progress::{Bars, note};
use crate::settings::Settings;
use crate::text::write_stdout;
use quern::{Event, Finish, Generation, Progress, Quern, RequestOptions, TemplateOrigin};

/// Loads a model that will answer under the command line's settings.
pub(crate) fn load(
    settings: &Settings,
    model: &ModelArg,
    running: &RunningArgs,
    sampling: &SamplingArgs,
    bars: &mut Bars,
) -> anyhow::Result<Quern> {
    let mut model = settings.model(model, running, true, bars)?;
    model.set_sampling_defaults(settings.sampling(sampling, &model)?);
    Ok(model)
}

/// The instructions in force, and who gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct System {
    pub(crate) text: String,
    pub(crate) source: &'static str,
}

impl System {
    /// An empty --system leaves the conversation to the template's own instructions.
    pub(crate) fn choose(given: &Option<String>, recommended: Option<&str>) -> Option<System> {
        let (text, source) = match (given, recommended) {
            (Some(text), _) => (text.as_str(), "command line"),
            (None, Some(text)) => (text, "short name"),
            (None, None) => return None,
        };
        System::new(text, source)
    }

    /// Empty instructions are none.
    pub(crate) fn new(text: &str, source: &'static str) -> Option<System> {
        (!text.is_empty()).then(|| System { text: text.to_owned(), source })
    }
}

/// Says what is in force.
pub(crate) fn verbose(
    model: &Quern,
    options: &RequestOptions,
    system: Option<&System>,
) -> anyhow::Result<()> {
    model.warnings().iter().for_each(|warning| note(warning));
    note(&modes::line(model.facts()));
    note(&modes::sampling(&model.sampling(&options.sampling)?));
    if let Some(System { text, source }) = system {
        note(&format!("system {text:?} ({source})"));
    }
    Ok(())
}

/// The name of the built-in template in use, where the file has none.
pub(crate) fn fallback_template(model: &Quern) -> anyhow::Result<Option<&str>> {
    Ok(match model.template()?.origin() {
        TemplateOrigin::Fallback(name) => Some(name),
        TemplateOrigin::File | TemplateOrigin::Caller => None,
    })
}

/// The same as a person is told it.
pub(crate) fn fallback_note(name: &str) -> String {
    format!("the model file has no chat template: the built-in \"{name}\" is used")
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) ids: Vec<u32>,
    pub(crate) finish: Finish,
}

/// Prompts shorter than this are read before a bar could be seen.
const BAR_TOKENS: usize = 1024;

/// Follows a generation to its end, writing its text as it comes unless `quiet`.
pub(crate) fn follow(
    mut generation: Generation,
    quiet: bool,
    bars: &mut Bars,
    interrupted: &dyn Fn() -> bool,
) -> anyhow::Result<Answer> {
    let (mut text, mut ids) = (String::new(), Vec::new());
    while let Some(event) = generation.next() {
        if interrupted() {
            generation.cancel();
        }
        match event.map_err(quern::Error::from)? {
            Event::Prefill { done, total } if total >= BAR_TOKENS => {
                bars.set("reading the prompt", done as u64, total as u64);
            }
            Event::Prefill { .. } => {}
            Event::Token(token) => ids.push(token.id),
            Event::Text(piece) => {
                if !quiet {
                    write_stdout(piece.as_bytes())?;
                }
                text.push_str(&piece);
            }
            Event::Finish(finish) => {
                bars.finish();
                return Ok(Answer { text, ids, finish });
            }
        }
    }
    anyhow::bail!("the engine ended without an end")
}

/// Tokens, speeds, the end of an answer and the seed of its draws, in one line.
pub(crate) fn stats(finish: &Finish) -> String {
    let (usage, timings) = (&finish.usage, &finish.timings);
    format!(
        "{} prompt tokens at {:.1} tok/s, {} generated at {:.1} tok/s, ended by {}, seed {}",
        usage.prompt_tokens,
        timings.prompt_tok_s(usage),
        usage.completion_tokens,
        timings.generate_tok_s(usage),
        finish.reason.name(),
        finish.seed,
    )
}
