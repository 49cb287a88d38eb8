//! `quern run`: one answer.

use crate::args::{ModelArg, RunningArgs, SamplingArgs, count};
use crate::exit::{Exit, refuse};
use crate::progress::{Bars, dim, note};
use crate::text::{print_json, write_stdout};
use crate::{modes, text};
use quern::{
    Event, Finish, FinishReason, Generation, Message, Progress, Quern, RequestOptions, StoppedBy,
    TemplateOrigin,
};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::Path;

/// Answer a prompt, or continue a text with --raw
///
/// The answer is written as it comes. A prompt on standard input loses one line break at its end. What is typed, also
/// the spelling of a control token, stays plain text.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  quern run demo \"What is the capital of France?\"
  git diff | quern run demo - --system \"Review this change.\"
  quern run gemma3 --raw \"Once upon a time\" -n 50 --seed 1")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// The prompt; read from standard input where it is absent or `-`
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// Give the model the text as it is, without its chat template
    #[arg(long)]
    raw: bool,
    /// Instructions that stand above the conversation; what a short name recommends unless given, then the template's own
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Most tokens to generate; until the model stops or the context is full unless given
    #[arg(short = 'n', long = "max-tokens", value_name = "N", value_parser = count)]
    max_tokens: Option<usize>,
    /// Text that ends the answer and is not part of it; may be given more than once
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Never draw the tokens by which the model ends an answer
    #[arg(long)]
    ignore_eos: bool,
    /// Print one JSON object when all is done: text, ids, finish_reason, usage, timings, seed and more
    #[arg(long)]
    json: bool,
    /// Say on standard error what is in force, which sampling settings won, and what in the file is odd
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    running: RunningArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let prompt = prompt(args.prompt.as_deref())?;
    let mut bars = Bars::new();
    let model = Quern::load(&args.model.model, args.running.load_options(), &mut bars)?;
    let system = System::choose(args, model.file().recommended_system());
    let options = RequestOptions {
        sampling: args.sampling.overrides(),
        max_tokens: args.max_tokens,
        stops: args.stop.clone(),
        ignore_eos: args.ignore_eos,
        ..RequestOptions::default()
    };
    if args.verbose {
        model.warnings().iter().for_each(|warning| note(warning));
        note(&modes::line(model.facts()));
        note(&modes::sampling(&model.sampling(&options.sampling)?));
        if let Some(System { text, source }) = system {
            note(&format!("system {text:?} ({source})"));
        }
    }
    let interrupts = quern_platform::catch_interrupts()?;
    let generation = if args.raw {
        model.complete(&prompt, &options)?
    } else {
        let system = system.iter().map(|system| Message::system(system.text));
        let messages: Vec<_> = system.chain([Message::user(prompt)]).collect();
        if let TemplateOrigin::Fallback(name) = model.template()?.origin() {
            note(&format!("the model file has no chat template: the built-in \"{name}\" is used (--raw uses none)"));
        }
        model.chat(&messages, &options)?
    };
    let answer = read(generation, args.json, &mut bars, &|| interrupts.interrupted())?;
    if args.json {
        print_json(&report(&model, &options, system, &answer)?)?;
    } else if std::io::stdout().is_terminal() {
        if !answer.text.ends_with('\n') {
            write_stdout(b"\n")?;
        }
        dim(&stats(&answer.finish));
    }
    Ok(match answer.finish.reason {
        FinishReason::Cancelled => Exit::Interrupted,
        FinishReason::Stop | FinishReason::Length => Exit::Done,
    })
}

/// The instructions in force.
#[derive(Clone, Copy)]
struct System<'a> {
    text: &'a str,
    source: &'static str,
}

impl<'a> System<'a> {
    /// An empty --system leaves the conversation to the template's own instructions.
    fn choose(args: &'a Args, recommended: Option<&'a str>) -> Option<System<'a>> {
        let system = match (&args.system, recommended) {
            _ if args.raw => return None,
            (Some(text), _) => System { text, source: "request" },
            (None, Some(text)) => System { text, source: "short name" },
            (None, None) => return None,
        };
        (!system.text.is_empty()).then_some(system)
    }
}

fn prompt(given: Option<&str>) -> anyhow::Result<String> {
    if let Some(prompt) = given.filter(|prompt| *prompt != "-") {
        return Ok(prompt.to_owned());
    }
    if std::io::stdin().is_terminal() {
        note("reading the prompt from the terminal; Ctrl-D ends it");
    }
    let mut prompt = text::read(Path::new("-"))?;
    if prompt.ends_with('\n') {
        prompt.pop();
        if prompt.ends_with('\r') {
            prompt.pop();
        }
    }
    if prompt.is_empty() { refuse("the prompt on standard input is empty") } else { Ok(prompt) }
}

struct Answer {
    text: String,
    ids: Vec<u32>,
    finish: Finish,
}

/// Prompts shorter than this are read before a bar could be seen.
const BAR_TOKENS: usize = 1024;

/// Follows a generation to its end, writing its text as it comes unless `quiet`.
fn read(
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

fn stats(finish: &Finish) -> String {
    let (usage, timings) = (&finish.usage, &finish.timings);
    format!(
        "{} prompt tokens at {:.1} tok/s, {} generated at {:.1} tok/s, ended by {}",
        usage.prompt_tokens,
        timings.prompt_tok_s(usage),
        usage.completion_tokens,
        timings.generate_tok_s(usage),
        finish.reason.name(),
    )
}

fn report(
    model: &Quern,
    options: &RequestOptions,
    system: Option<System<'_>>,
    answer: &Answer,
) -> anyhow::Result<Value> {
    let Finish { reason, stopped_by, usage, timings, seed } = &answer.finish;
    let stopped_by = match stopped_by {
        None => Value::Null,
        Some(StoppedBy::Token(id)) => json!({ "token": id }),
        Some(StoppedBy::Text(text)) => json!({ "text": text }),
    };
    let choice = model.sampling(&options.sampling)?;
    let params = &choice.resolved.params;
    let source = |name| choice.resolved.source(name).map(quern::Source::name);
    let sampling = json!({
        "temperature": { "value": params.temperature, "from": source("temperature") },
        "top_k": { "value": params.top_k, "from": source("top_k") },
        "top_p": { "value": params.top_p, "from": source("top_p") },
        "min_p": { "value": params.min_p, "from": source("min_p") },
        "repeat_penalty": { "value": params.repeat_penalty, "from": source("repeat_penalty") },
    });
    Ok(json!({
        "model": model.facts().model,
        "text": answer.text,
        "ids": answer.ids,
        "finish_reason": reason.name(),
        "stopped_by": stopped_by,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
        },
        "timings": {
            "load_s": model.facts().load_time.as_secs_f64(),
            "queue_s": timings.queue.as_secs_f64(),
            "tokenize_s": timings.tokenize.as_secs_f64(),
            "prefill_s": timings.prefill.as_secs_f64(),
            "decode_s": timings.decode.as_secs_f64(),
            "first_token_s": timings.first_token.as_secs_f64(),
            "prompt_tok_s": timings.prompt_tok_s(usage),
            "generate_tok_s": timings.generate_tok_s(usage),
        },
        "seed": seed,
        "modes": modes::json(model.facts()),
        "sampling": sampling,
        "system": system.map(|system| json!({ "value": system.text, "from": system.source })),
        "warnings": model.warnings(),
    }))
}
