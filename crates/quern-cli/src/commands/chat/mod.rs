//! `quern chat`: a conversation.
//!
//! One loop over what is said, from a terminal or from a pipe. On a terminal a mistake is told and the conversation goes
//! on; in a pipe it ends the command, as a script would want. The whole conversation is given to the engine at every turn.

mod input;
mod slash;
mod transcript;

use crate::answer::{self, Answer, System};
use crate::args::{AnswerArgs, ModelArg, RunningArgs, SamplingArgs, with_stages};
use crate::exit::{self, Exit, Refusal, refuse, usage_line};
use crate::modes;
use crate::progress::{Bars, dim, note};
use crate::text::write_stdout;
use input::{Input, Said};
use crate::settings::{GlobalArgs, Settings};
use quern::{EngineError, FinishReason, Message, Progress, Quern, RequestOptions};
use slash::Slash;
use std::io::IsTerminal;
use std::path::Path;
use transcript::Transcript;

/// Hold a conversation
///
/// Answers are written as they come. Ctrl-C stops an answer and keeps what there is of it; Ctrl-D, or Ctrl-C twice at an
/// empty prompt, leaves. A line that ends in a backslash goes on in the next one, and lines between """ and """ are one
/// message. /help lists the commands. Where standard input is no terminal, each line of it is a message or a command,
/// only answers are printed, and the first mistake ends the conversation.
#[derive(clap::Args)]
#[command(after_help = with_stages("\
Examples:
  quern chat demo
  quern chat model.gguf --system \"Answer in one sentence.\" --temp 0.7
  printf 'My name is Ada.\\nWhat is my name?\\n' | quern chat demo --seed 1"))]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// Neither read nor write the file that keeps typed lines for the next conversation
    #[arg(long)]
    no_history: bool,
    #[command(flatten)]
    answer: AnswerArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    running: RunningArgs,
}

pub(crate) fn run(args: &Args, global: &GlobalArgs) -> anyhow::Result<Exit> {
    let settings = Settings::load(global)?;
    let mut bars = Bars::new();
    let model = answer::load(&settings, &args.model, &args.running, &args.sampling, &mut bars)?;
    let system = System::choose(&args.answer.system, model.file().recommended_system());
    let options = args.answer.request();
    model.sampling(&options.sampling)?.resolved.validate().map_err(|e| Refusal(e.to_string()))?;
    if args.answer.verbose {
        answer::verbose(&model, &options, system.as_ref())?;
    }
    if let Some(name) = answer::fallback_template(&model)? {
        note(&answer::fallback_note(name));
    }
    let mut input = Input::open(!args.no_history)?;
    if input.is_terminal() {
        dim(&format!("{}: /help lists the commands, Ctrl-D leaves", model.facts().model));
    }
    let chat = Chat { model: &model, options, settings: Vec::new(), system, messages: Vec::new(), bars };
    chat.talk(&mut input)
}

struct Chat<'a> {
    model: &'a Quern,
    options: RequestOptions,
    /// What /set has set, as it was typed; a later entry of a name counts.
    settings: Vec<(String, String)>,
    system: Option<System>,
    /// Questions and answers by turns; every question here has its answer.
    messages: Vec<Message>,
    bars: Bars,
}

/// What follows a turn.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    Stopped,
    Leave,
}

impl Chat<'_> {
    fn talk(mut self, input: &mut Input) -> anyhow::Result<Exit> {
        // Ctrl-C has just been pressed, at an empty prompt or in an answer.
        let mut interrupted = false;
        loop {
            let next = match input.read()? {
                Said::End => return Ok(Exit::Done),
                Said::Interrupted if interrupted => return Ok(Exit::Done),
                Said::Interrupted => {
                    note("Ctrl-C again, or Ctrl-D, leaves");
                    Ok(Next::Stopped)
                }
                Said::Dropped => Ok(Next::GoOn),
                Said::Command(line) => self.command(&line),
                Said::Message(text) => self.message(text),
            };
            let next = match next {
                Err(error) if input.is_terminal() => {
                    self.bars.finish();
                    eprintln!("quern: error: {}", exit::line(&error));
                    Next::GoOn
                }
                next => next?,
            };
            match next {
                Next::Leave => return Ok(Exit::Done),
                Next::Stopped if !input.is_terminal() => return Ok(Exit::Interrupted),
                next => interrupted = next == Next::Stopped,
            }
        }
    }

    fn command(&mut self, line: &str) -> anyhow::Result<Next> {
        match Slash::parse(line).map_err(Refusal)? {
            Slash::Help => note(&slash::help()),
            Slash::System(text) => self.system = System::new(&text, "request"),
            Slash::Show => note(&modes::sampling(&self.model.sampling(&self.options.sampling)?)),
            Slash::Set(name, value) => self.set(name, value)?,
            Slash::Reset => self.messages.clear(),
            Slash::Save(path) => self.save(Path::new(&path))?,
            Slash::Load(path) => self.load(Path::new(&path))?,
            Slash::Regen => return self.regenerate(),
            Slash::Exit => return Ok(Next::Leave),
        }
        Ok(Next::GoOn)
    }

    /// Reads a setting as its flag would be, and keeps it only if all settings together hold.
    fn set(&mut self, name: String, value: String) -> anyhow::Result<()> {
        let mut settings = self.settings.clone();
        settings.push((name, value));
        let flags = SamplingArgs::parse(&settings).map_err(|error| Refusal(usage_line(&error)))?;
        let sampling = flags.overrides(self.model)?;
        let resolved = self.model.sampling(&sampling)?.resolved;
        resolved.validate().map_err(|error| Refusal(error.to_string()))?;
        self.settings = settings;
        self.options.sampling = sampling;
        Ok(())
    }

    fn save(&self, path: &Path) -> anyhow::Result<()> {
        let transcript = Transcript {
            model: self.model.facts().model.clone(),
            system: self.system.as_ref().map(|system| system.text.clone()),
            messages: self.messages.clone(),
        };
        transcript.write(path)
    }

    fn load(&mut self, path: &Path) -> anyhow::Result<()> {
        let transcript = Transcript::read(path)?;
        if transcript.model != self.model.facts().model {
            note(&format!("this conversation was held with {}", transcript.model));
        }
        self.system = transcript.system.and_then(|text| System::new(&text, "loaded"));
        self.messages = transcript.messages;
        Ok(())
    }

    fn message(&mut self, text: String) -> anyhow::Result<Next> {
        self.messages.push(Message::user(text));
        let replied = self.reply();
        self.settle();
        replied
    }

    fn regenerate(&mut self) -> anyhow::Result<Next> {
        let Some(last) = self.messages.pop() else { return refuse("there is no answer to give again") };
        let replied = self.reply();
        // An answer that failed, or was stopped before its first word, leaves the earlier one in place.
        if self.messages.last().is_some_and(|message| message.role == "user") {
            self.messages.push(last);
        }
        replied
    }

    /// Takes back a question that got no answer: templates want the two by turns.
    fn settle(&mut self) {
        if self.messages.last().is_some_and(|message| message.role == "user") {
            self.messages.pop();
        }
    }

    /// Answers the last message, and adds what was written to the conversation.
    fn reply(&mut self) -> anyhow::Result<Next> {
        let system = self.system.iter().map(|system| Message::system(&system.text));
        let messages: Vec<_> = system.chain(self.messages.iter().cloned()).collect();
        let interrupts = quern_platform::catch_interrupts()?;
        let generation = self.model.chat(&messages, &self.options)?;
        let answer = answer::follow(generation, false, &mut self.bars, &|| interrupts.interrupted());
        let answer = answer.map_err(explain)?;
        self.end_line(&answer)?;
        let stopped = answer.finish.reason == FinishReason::Cancelled;
        if stopped && answer.text.is_empty() {
            note("stopped before the first word: the message is taken back");
        } else {
            self.messages.push(Message::assistant(answer.text));
        }
        Ok(if stopped { Next::Stopped } else { Next::GoOn })
    }

    fn end_line(&self, answer: &Answer) -> anyhow::Result<()> {
        if !answer.text.ends_with('\n') {
            write_stdout(b"\n")?;
        }
        if std::io::stdout().is_terminal() {
            dim(&answer::stats(&answer.finish));
        }
        let (usage, context) = (&answer.finish.usage, self.model.facts().context);
        if answer.finish.reason == FinishReason::Length
            && usage.prompt_tokens + usage.completion_tokens >= context
        {
            note(&format!("the context of {context} tokens is full, which ended the answer: /reset starts anew"));
        }
        Ok(())
    }
}

/// Says of a context that is full what to do about it here.
fn explain(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<quern::Error>() {
        Some(quern::Error::Engine(EngineError::PromptTooLong { prompt, context })) => Refusal(format!(
            "the conversation with this message has {prompt} tokens, and the context holds {context}: /reset starts anew \
             (/save FILE keeps what was said), or start with a larger --ctx"
        ))
        .into(),
        _ => error,
    }
}
