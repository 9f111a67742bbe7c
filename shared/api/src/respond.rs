//! Deciding requests.

use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use dormouse_engine::Engine;

use crate::{
    body::{self, RespondBody},
    call::Call,
    problem::{Problem, Reply},
    routes::{self, Endpoint, Respond},
    view,
};

pub(crate) async fn handle(engine: &Engine, request: &ApiGatewayProxyRequest) -> Result<Reply, Problem> {
    let (endpoint, id) = routes::find(request)?;
    let Endpoint::Respond(to) = endpoint else { return Err(routes::elsewhere(endpoint)) };
    let call = Call::read(engine, request, id)?;
    let body: RespondBody = body::parse(&call.body)?;
    let key = call.key.as_ref();
    let responded = match to {
        Respond::Request => engine.respond(&call.by, &call.request_id()?, &body.for_request()?, key).await?,
        Respond::Run => engine.respond_to_run(&call.by, &call.run_id()?, &body.for_run()?, key).await?,
    };
    Ok(Reply::ok(&view::responded(&responded)))
}
