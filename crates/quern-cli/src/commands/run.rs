//! `quern run`: one answer.

use crate::answer::{self, Answer, System};
use crate::args::{AnswerArgs, ModelArg, RunningArgs, SamplingArgs, with_stages};
use crate::exit::{Exit, refuse};
use crate::progress::{Bars, dim, note};
use crate::text::{print_json, write_stdout};
use crate::{modes, text};
use crate::settings::{GlobalArgs, Settings};
use quern::{Finish, FinishReason, Message, Quern, RequestOptions, Setting, StoppedBy};
use serde_json::{Number, Value, json};
use std::io::IsTerminal;
use std::path::Path;

/// Answer a prompt, or continue a text with --raw
///
/// The answer is written as it comes. A prompt on standard input loses one line break at its end. What is typed, also
/// the spelling of a control token, stays plain text.
#[derive(clap::Args)]
#[command(after_help = with_stages("\
Examples:
  quern run demo \"What is the capital of France?\"
  git diff | quern run demo - --system \"Review this change.\"
  quern run gemma3 --raw \"Once upon a time\" -n 50 --seed 1"))]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// The prompt; read from standard input where it is absent or `-`
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// Give the model the text as it is, without its chat template
    #[arg(long, conflicts_with = "system")]
    raw: bool,
    /// Print one JSON object when all is done: text, ids, finish_reason, usage, timings, seed and more
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    answer: AnswerArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    running: RunningArgs,
}

pub(crate) fn run(args: &Args, global: &GlobalArgs) -> anyhow::Result<Exit> {
    let settings = Settings::load(global)?;
    let prompt = prompt(args.prompt.as_deref())?;
    let mut bars = Bars::new();
    let model = answer::load(&settings, &args.model, &args.running, &args.sampling, &mut bars)?;
    let system =
        if args.raw { None } else { System::choose(&args.answer.system, model.file().recommended_system()) };
    let options = args.answer.request();
    if args.answer.verbose {
        answer::verbose(&model, &options, system.as_ref())?;
    }
    let interrupts = quern_platform::catch_interrupts()?;
    let generation = if args.raw {
        model.complete(&prompt, &options)?
    } else {
        let system = system.iter().map(|system| Message::system(&system.text));
        let messages: Vec<_> = system.chain([Message::user(prompt)]).collect();
        if let Some(name) = answer::fallback_template(&model)? {
            note(&format!("{} (--raw uses none)", answer::fallback_note(name)));
        }
        model.chat(&messages, &options)?
    };
    let answer = answer::follow(generation, args.json, &mut bars, &|| interrupts.interrupted())?;
    if args.json {
        print_json(&report(&model, &options, system.as_ref(), &answer)?)?;
    } else if std::io::stdout().is_terminal() {
        if !answer.text.ends_with('\n') {
            write_stdout(b"\n")?;
        }
        dim(&answer::stats(&answer.finish));
    } else if args.answer.verbose {
        note(&answer::stats(&answer.finish));
    }
    Ok(match answer.finish.reason {
        FinishReason::Cancelled => Exit::Interrupted,
        FinishReason::Stop | FinishReason::Length => Exit::Done,
    })
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

fn report(
    model: &Quern,
    options: &RequestOptions,
    system: Option<&System>,
    answer: &Answer,
) -> anyhow::Result<Value> {
    let Finish { reason, stopped_by, usage, timings, seed } = &answer.finish;
    let stopped_by = match stopped_by {
        None => Value::Null,
        Some(StoppedBy::Token(id)) => json!({ "token": id }),
        Some(StoppedBy::Text(text)) => json!({ "text": text }),
    };
    let choice = model.sampling(&options.sampling)?;
    let sampling = modes::chosen(&choice).map(|Setting { name, value, source }| {
        // A number, or words where it is none.
        let value = value.parse::<Number>().map_or(Value::String(value), Value::Number);
        (name.to_owned(), json!({ "value": value, "from": source.name() }))
    });
    let sampling = Value::Object(sampling.collect());
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
