//! Deciding requests.

use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use dormouse_engine::Engine;

use crate::{
    body::{self, RespondBody},
    call::{Call, Visit},
    complete, link,
    problem::{Problem, Reply},
    routes::{self, Endpoint, Respond},
    view,
};

pub(crate) async fn handle(engine: &Engine, request: &ApiGatewayProxyRequest) -> Result<Reply, Problem> {
    let (endpoint, id) = routes::find(request)?;
    let Endpoint::Respond(to) = endpoint else { return Err(routes::elsewhere(endpoint)) };
    let responded = match to {
        Respond::Request => {
            let call = Call::read(engine, request, id)?;
            let body: RespondBody = body::parse(&call.body)?;
            engine.respond(&call.by, &call.request_id()?, &body.for_request()?, call.key.as_ref()).await?
        }
        Respond::Run => {
            let call = Call::read(engine, request, id)?;
            let body: RespondBody = body::parse(&call.body)?;
            engine.respond_to_run(&call.by, &call.run_id()?, &body.for_run()?, call.key.as_ref()).await?
        }
        Respond::MakeLink => return link::make(engine, &Call::read(engine, request, id)?).await,
        Respond::ShowLink => return Ok(link::show(engine, &Visit::read(request, id)?).await),
        Respond::Complete => return complete::handle(engine, &Visit::read(request, id)?).await,
        Respond::DecideByLink => return Ok(link::decide(engine, &Visit::read(request, id)?).await),
    };
    Ok(Reply::ok(&view::responded(&responded)))
}
