"""A small network on two spirals, with PyTorch."""
import json, math, os, select, torch

trial = json.load(open(os.environ["DTRAIN_TRIAL"]))
reports, operations = open(3, "w", buffering=1), open(4, "rb", buffering=0)
hparams = trial["hyperparameters"]
say = lambda **report: print(json.dumps(report), file=reports)
torch.set_num_threads(trial["threads"])
device = torch.device("cuda" if trial["devices"] else "cpu")

t = torch.rand(2000, generator=torch.Generator().manual_seed(1)) * 3 * math.pi
label = torch.arange(2000) % 2
angle = t + math.pi * label
data = torch.stack([t * angle.cos(), t * angle.sin()], 1).to(device) / 10
label = label.to(device)

torch.manual_seed(trial["seed"])
width = hparams["width"]
net = torch.nn.Sequential(
    torch.nn.Linear(2, width), torch.nn.Tanh(),
    torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, 2)).to(device)
optimizer = torch.optim.Adam(net.parameters(), lr=hparams["lr"])
batches = 0
if trial["checkpoint"]:
    saved = torch.load(trial["checkpoint"]["path"] + "/model.pt", map_location=device)
    net.load_state_dict(saved["net"])
    optimizer.load_state_dict(saved["optimizer"])
    batches = trial["checkpoint"]["batches"]

order = {"type": "train", "until": trial["until"]}
while order["type"] == "train":
    until = order["until"]["batches"]
    while batches < until:
        # A batch depends only on its number, so resuming changes nothing.
        draw = torch.Generator().manual_seed(trial["seed"] + batches)
        some = torch.randint(0, 1600, (hparams["global_batch_size"],), generator=draw).to(device)
        loss = torch.nn.functional.cross_entropy(net(data[some]), label[some])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        batches += 1
        if batches % trial["scheduling_unit"] == 0:
            say(type="training", batches=batches, metrics={"loss": loss.item()})
            if select.select([operations], [], [], 0)[0]:
                break  # only a stop can arrive before the end
    path = f"{trial['directory']}/{batches}"
    os.mkdir(path)
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, path + "/model.pt")
    say(type="checkpoint", batches=batches, path=path)
    if batches < until:
        break
    with torch.no_grad():
        output = net(data[1600:])
    loss = torch.nn.functional.cross_entropy(output, label[1600:]).item()
    accuracy = (output.argmax(1) == label[1600:]).float().mean().item()
    say(type="validation", batches=until, metrics={"val_loss": loss, "accuracy": accuracy})
    order = json.loads(operations.readline() or '{"type": "stop"}')
