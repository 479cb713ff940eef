"""The half that runs at every site, next to the data. Only the model's numbers leave the site."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from . import data, model

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Go on training the model that came, with this site's images."""
    config = message.content["config"]
    partition_id = int(context.node_config["partition-id"])
    (images, labels), _ = _own_examples(message, context)
    trained, loss = model.train(
        message.content["arrays"].to_numpy_ndarrays(),
        images,
        labels,
        epochs=int(context.run_config["local-epochs"]),
        learning_rate=float(context.run_config["learning-rate"]),
        seed=1000 * int(config["server-round"]) + partition_id,
    )
    # "num-examples" is this site's weight in the average.
    metrics = MetricRecord({"train-loss": loss, "num-examples": len(labels)})
    content = RecordDict({"arrays": ArrayRecord(trained), "metrics": metrics})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Judge the model that came by images of this site that it was not trained with."""
    _, (images, labels) = _own_examples(message, context)
    arrays = message.content["arrays"].to_numpy_ndarrays()
    loss, accuracy = model.evaluate(arrays, images, labels)
    metrics = MetricRecord({"loss": loss, "accuracy": accuracy, "num-examples": len(labels)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def _own_examples(message: Message, context: Context) -> tuple[data.Examples, data.Examples]:
    # Which part is ours stands in the node config: each site has its own `partition-id`.
    return data.load_site(
        str(message.content["config"]["dataset"]),
        int(context.node_config["partition-id"]),
        int(context.node_config["num-partitions"]),
    )
